"""What the default policy gains and loses, on many traces and loads, in the simulator."""
