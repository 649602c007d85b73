"""The settings that are handed around when NCCL fails, left in the script for good."""

import os

os.environ["NCCL_MAX_NCHANNELS"] = "1"
os.environ["NCCL_BUFFSIZE"] = "16777216"
