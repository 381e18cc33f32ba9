"""The words of the API: spec, status and names as frozen values, parsed where they enter. No I/O, no clock."""
