"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  for (const code of all("code.command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy: " + code.textContent.slice(0, 80));
    button.addEventListener("click", async () => {
      button.textContent = (await copy(code.textContent)) ? "Copied" : "Copy by hand";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    const why = code.nextElementSibling;
    (why && why.matches(".why") ? why : code).after(button);
  }

  function reveal() {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { return; }
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.matches(".finding")) target.querySelector("details").open = true;
    for (let up = target.parentElement; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();

  const holds = (spans, rank) => spans.split(", ").some((span) => {
    const [low, high = low] = span.split("-");
    return span !== "" && +low <= rank && rank <= +high;
  });
  const form = document.querySelector(".filters");
  if (form) {
    form.hidden = false;
    const filter = () => {
      const wanted = new Set(all("[name=severity]:checked", form).map((box) => box.value));
      const host = form.elements.host.value;
      const rank = form.elements.rank.value.trim();
      const words = form.elements.words.value.trim().toLowerCase();
      const fits = (finding) => wanted.has(finding.dataset.severity)
        && (!host || finding.dataset.hosts.split(" ").includes(host))
        && (rank === "" || holds(finding.dataset.ranks, +rank))
        && (!words || finding.textContent.toLowerCase().includes(words));
      const findings = all(".finding");
      const shown = new Set(findings.filter(fits));
      for (const finding of findings) finding.hidden = !shown.has(finding) && !all(".finding", finding).some((f) => shown.has(f));
      form.querySelector("output").textContent = `${shown.size} of ${findings.length} shown`;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  }

  for (const grid of all(".grid")) {
    const cells = all("use", grid);
    const line = grid.parentElement.querySelector(".pick");
    let at = -1;
    const pick = (index) => {
      if (!cells[index]) return;
      if (cells[at]) cells[at].classList.remove("picked");
      at = index;
      cells[at].classList.add("picked");
      line.textContent = cells[at].querySelector("title").textContent;
    };
    grid.addEventListener("click", (event) => pick(cells.indexOf(event.target.closest("use"))));
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
      if (!step) return;
      event.preventDefault();
      pick(Math.max(0, Math.min(cells.length - 1, at + step)));
    });
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
})();
