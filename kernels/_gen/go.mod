module github.com/colligo-go/colligo/kernels/_gen

go 1.25.0

require github.com/klauspost/compress v1.20.3
