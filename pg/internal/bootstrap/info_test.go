package bootstrap

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInfoFormat holds the form in which ranks read one another's bootstrap info, whichever version wrote it.
func TestInfoFormat(t *testing.T) {
	b := `{"Version":4,"Size":3,"Ranks":"[1 2 5]","Transport":"auto","Backends":"cpu:host","Bound":"cuda","Host":"h",` +
		`"Detail":true,"Table":"9 rules","CPUs":"Aw==","Process":"p","Secret":"AQI=","GaveUp":"why","Late":true,"Heard":true}`
	want := info{Version: 4, Size: 3, Ranks: "[1 2 5]", Transport: "auto", Backends: "cpu:host", Bound: "cuda", Host: "h",
		Detail: true, Table: "9 rules", CPUs: []byte{3}, Process: "p", Secret: []byte{1, 2}, GaveUp: "why", Late: true, Heard: true}
	got, err := readInfo(0, []byte(b))
	require.NoError(t, err)
	require.Equal(t, want, got)
	back, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, b, string(back))
	require.NoError(t, got.fits(0, want))
	require.Equal(t, formatVersion, got.Version)
}
