-- H = 0; expect 2: unknown name 'require'
require("os")
