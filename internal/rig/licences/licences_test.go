package licences

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var rewrite = flag.Bool("rewrite", false, "write docs/results/licences.txt")

func TestLicencesAreListed(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	if _, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil { // so that the test is run again when it changes
		t.Fatal(err)
	}
	modules := must.Get(Linked(root))(t)
	if len(modules) < 20 {
		t.Errorf("only %d modules are linked", len(modules))
	}
	file, want := filepath.Join(root, "docs", "results", "licences.txt"), Table(modules)
	if *rewrite {
		must.Do(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got := must.Get(os.ReadFile(file))(t)
	if string(got) != want {
		t.Error("docs/results/licences.txt is not what the modules say; go test ./internal/rig/licences -rewrite writes it anew")
	}
}

const (
	apache = "Apache License\n   Version 2.0, January 2004\n\nTERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION\n"
	mit    = "Permission is hereby granted, free of charge, to any person obtaining a copy of this\n\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY\n"
	bsd2   = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that the following conditions are\nmet:\n"
	bsd3   = bsd2 + "* Neither the name of X nor the names of\nits contributors may be used to endorse or promote products derived\nfrom this software without specific prior written permission.\n"
)

func TestIdentify(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{apache, "Apache-2.0"}, {mit, "MIT"}, {bsd2, "BSD-2-Clause"}, {bsd3, "BSD-3-Clause"}, {apache + bsd3, "Apache-2.0 BSD-3-Clause"},
		{"", ""}, {"All rights reserved.", ""}, {"See LICENSE.", ""},
		{"GNU GENERAL PUBLIC LICENSE\nVersion 3", ""}, {mit + "\nParts are under the Mozilla Public\nLicense.", ""}, {"\"Commons Clause\" License\n" + apache, ""},
	} {
		got, err := Identify(tt.text)
		if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q is under %v, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}

// The licences of a module are its own and those of the packages in it that are linked,
// not of those that are not.
func TestModule(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": apache, "NOTICE.txt": "X\n", "LICENSE.docs": "Creative Commons", "license.go": "package x\n",
		"a/b/COPYING": bsd3, "other/LICENSE": "GNU General Public License", "bare/b.go": "package bare\n",
	} {
		write(t, filepath.Join(top, filepath.FromSlash(name)), text)
	}
	module := func(packages ...string) *Module {
		m := &Module{Path: "x.io/m", Version: "v1.2.3"}
		for _, p := range packages {
			m.enter(top, filepath.Join(top, filepath.FromSlash(p)))
		}
		return m
	}
	linked := module("bare", "a/b", "a")
	must.Do(t, linked.read())
	if got, want := Table([]*Module{linked}), "| x.io/m | v1.2.3 | Apache-2.0, BSD-3-Clause | NOTICE.txt |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it is listed as %s", got[len(got)-len(want):])
	}
	if err := module("bare", "other").read(); err == nil || !strings.Contains(err.Error(), "general public license") {
		t.Errorf("a licence that is not permissive: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(top, "LICENSE")))
	if err := module("bare").read(); err == nil || !strings.Contains(err.Error(), "x.io/m v1.2.3 has no licence") {
		t.Errorf("no licence at all: %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
}
