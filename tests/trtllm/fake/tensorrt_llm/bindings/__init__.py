"""The bindings of the C++ runtime."""
