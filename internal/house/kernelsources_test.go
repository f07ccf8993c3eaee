package house

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kernelSource is one file of the GPU kernels in C++.
type kernelSource struct {
	name, dir string
	code      string // without comments and strings
	comments  []passage
}

// kernelSources reads all of them.
func kernelSources(t *testing.T) []kernelSource {
	t.Helper()
	var all []kernelSource
	walk(t, func(name, text string) {
		if within(name, generators) && (strings.HasSuffix(name, ".cu") || strings.HasSuffix(name, ".h")) {
			all = append(all, parseKernels(name, text))
		}
	})
	require.Greater(t, len(all), 10)
	return all
}

// parseKernels takes lines of comments that follow one another for one comment.
func parseKernels(name, text string) kernelSource {
	k := kernelSource{name: name, dir: path.Dir(name)}
	var code strings.Builder
	last := -1 // the line of the last comment that stood alone
	for i, line := range strings.Split(text, "\n") {
		before, comment := cutComment(line)
		code.WriteString(before + "\n")
		alone := strings.TrimSpace(before) == ""
		switch {
		case comment == "" && !(alone && strings.Contains(line, "//")):
			last = -1
			continue
		case alone && last == i-1 && len(k.comments) > 0 && last >= 0:
			k.comments[len(k.comments)-1].text += comment + "\n"
		default:
			k.comments = append(k.comments, passage{name, k.dir, i + 1, comment + "\n"})
		}
		last = -1
		if alone {
			last = i
		}
	}
	k.code = code.String()
	return k
}

// cutComment returns a line's code, its strings emptied, and its comment without the mark and one space.
func cutComment(line string) (code, comment string) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case quoted && line[i] == '\\':
			i++
			continue
		case quoted:
			continue
		case strings.HasPrefix(line[i:], "//"):
			return b.String(), strings.TrimPrefix(line[i+2:], " ")
		}
		b.WriteByte(line[i])
	}
	return b.String(), ""
}

// TestParseKernels holds the cutting of comments.
func TestParseKernels(t *testing.T) {
	k := parseKernels("d/x.h", "// one\n//\n//   (1) two\nint a; // three\n\"// no\" b // four\n// five\n")
	var texts []string
	for _, c := range k.comments {
		texts = append(texts, c.text)
	}
	require.Equal(t, []string{"one\n\n  (1) two\n", "three\n", "four\n", "five\n"}, texts)
	require.Equal(t, "\n\n\nint a; \n\"\" b \n\n\n", k.code)
}
