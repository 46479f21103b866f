-- H = 0; expect 1: not a text
Lua
