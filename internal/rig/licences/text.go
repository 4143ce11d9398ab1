package licences

import (
	"fmt"
	"slices"
	"strings"
)

// A text identifies a licence by phrases that must, and must not, occur.
type text struct {
	id      string // SPDX
	has     []string
	without []string
}

// permissive are the licences that may be linked. Phrases are in lower case, with one
// space between words.
var permissive = []text{
	{"Apache-2.0", []string{"apache license version 2.0, january 2004", "terms and conditions for use, reproduction, and distribution"}, nil},
	{"BSD-2-Clause", []string{bsd}, []string{bsdThird}},
	{"BSD-3-Clause", []string{bsd, bsdThird}, nil},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}, nil},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy", `the software is provided "as is", without warranty`}, nil},
}

const (
	bsd      = "redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are met"
	bsdThird = "may be used to endorse or promote products derived from this software without specific prior written permission"
)

// restrictive are phrases of licences that ask for more than to be named, wherever in
// a file they are.
var restrictive = []string{
	"affero general public license", "business source license", "commons clause", "common development and distribution license",
	"creative commons", "eclipse public license", "european union public licence", "general public license", "lesser general public",
	"mozilla public license", "server side public license",
}

// Identify returns the SPDX names of the licences in a licence file. It returns an
// error if it knows none of them, or if one is not permissive.
func Identify(file string) ([]string, error) {
	words := strings.ToLower(strings.Join(strings.Fields(strings.NewReplacer("“", `"`, "”", `"`, "*", " ").Replace(file)), " "))
	has := func(phrase string) bool { return strings.Contains(words, phrase) }
	if i := slices.IndexFunc(restrictive, has); i >= 0 {
		return nil, fmt.Errorf("it speaks of the %q", restrictive[i])
	}
	var ids []string
	for _, t := range permissive {
		if !slices.ContainsFunc(t.has, func(p string) bool { return !has(p) }) && !slices.ContainsFunc(t.without, has) {
			ids = append(ids, t.id)
		}
	}
	if ids == nil {
		return nil, fmt.Errorf("none of the permissive licences that are known is in it")
	}
	return ids, nil
}
