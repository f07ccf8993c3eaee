package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag of bytes, such as 8, 64Ki or 1Gi. B may follow, and case does not count.
type size int

// String is for the flag package.
func (s *size) String() string { return formatSize(int(*s)) }

// Set reads a size.
func (s *size) Set(text string) error {
	n, err := parseSize(text)
	*s = size(n)
	return err
}

// units lists the binary multiples; k, m and g alone mean the same, as in nccl-tests.
var units = []struct {
	name  string
	bytes int64
}{{"ki", 1 << 10}, {"mi", 1 << 20}, {"gi", 1 << 30}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}}

func parseSize(text string) (int, error) {
	digits, unit := strings.TrimSuffix(strings.ToLower(text), "b"), int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = d, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size; write bytes, or a number with Ki, Mi or Gi", text)
	}
	if n > math.MaxInt/unit {
		return 0, fmt.Errorf("%q is more than this machine can address", text)
	}
	return int(n * unit), nil
}

// formatSize prints a size as parseSize reads it.
func formatSize(n int) string {
	for _, u := range []struct {
		name  string
		bytes int
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.name
		}
	}
	return strconv.Itoa(n)
}

// sizes returns begin, begin × factor, and so on, and end as the last.
func sizes(begin, end, factor int) []int {
	var all []int
	for n := begin; n < end; n *= factor {
		all = append(all, n)
		if n == 0 || n > end/factor {
			break
		}
	}
	return append(all, end)
}
