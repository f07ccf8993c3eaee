package pgtest_test

var media = []string{"shm", "tcp"}
