package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version says which version of the module the program is of, which compiler built it, and for which system.
func (s system) version(args []string) int {
	f := flag.NewFlagSet("version", flag.ContinueOnError)
	if code, ok := s.parse(f, args); !ok {
		return code
	}
	if f.NArg() > 0 {
		return s.misuse(f, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	fmt.Fprintf(s.stdout, "colligo %s, %s, %s/%s\n", versionOf(debug.ReadBuildInfo()), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0
}

// versionOf is the module's version, or the commit of a build from a checkout.
func versionOf(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "of unknown version"
	}
	version, commit := info.Main.Version, ""
	for _, one := range info.Settings {
		switch {
		case one.Key == "vcs.revision":
			commit = one.Value
		case one.Key == "vcs.modified" && one.Value == "true":
			commit += " and changes"
		}
	}
	switch {
	case version == "" || version == "(devel)":
		version = "development"
		if commit != "" {
			version += " at " + commit
		}
	}
	return version
}
