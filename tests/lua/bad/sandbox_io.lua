-- H = 0; expect 2: unknown name 'io'; a model is one file
io.write("x")
