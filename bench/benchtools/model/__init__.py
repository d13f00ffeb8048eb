"""Running benchmark programs on the emulator's timing model and collecting what it says."""
