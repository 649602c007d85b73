"""The probe: a job of collectives that times and checks every layer of the machine; measures, never judges."""
