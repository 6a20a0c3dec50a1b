module github.com/streamdedup/streamdedup

go 1.26
