//go:build !race

package ring

const racing = false
