package apisurface

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Gone returns the lines of a release that no longer exist: names that were removed or changed. New names
// break no program. A new method of an interface changes the line of the interface.
func Gone(release, now []string) []string {
	return slices.DeleteFunc(slices.Clone(release), func(line string) bool { return slices.Contains(now, line) })
}

var (
	versionHeading = regexp.MustCompile(`(?m)^## (.+)$`)
	partHeading    = regexp.MustCompile(`(?m)^### (.+)$`)
	quoted         = regexp.MustCompile("`([^`]+)`")
)

// A section is what stands below a heading.
type section struct{ title, text string }

func sections(text string, heading *regexp.Regexp) []section {
	var list []section
	ends := heading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range ends {
		end := len(text)
		if i+1 < len(ends) {
			end = ends[i+1][0]
		}
		list = append(list, section{strings.TrimSpace(text[m[2]:m[3]]), text[m[1]:end]})
	}
	return list
}

// Versions returns the releases that a change log has headings for, as "v0.1.0".
func Versions(changelog string) []string {
	var list []string
	for _, s := range sections(changelog, versionHeading) {
		if version, _, _ := strings.Cut(s.title, " "); parseVersion(version) != nil {
			list = append(list, version)
		}
	}
	return list
}

// Announced returns the names in backquotes under "Breaking" in the first section of a change log, which describes the
// next release.
func Announced(changelog string) []string {
	var names []string
	versions := sections(changelog, versionHeading)
	if len(versions) == 0 {
		return nil
	}
	for _, part := range sections(versions[0].text, partHeading) {
		if part.title != "Breaking" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(part.text, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// Unannounced returns the lines whose names were not announced. A name stands for its
// members: a type for its fields and methods, a package for everything
// in it.
func Unannounced(gone, announced []string) []string {
	return slices.DeleteFunc(slices.Clone(gone), func(line string) bool {
		name, _, _ := strings.Cut(line, " ")
		return slices.ContainsFunc(announced, func(a string) bool { return name == a || strings.HasPrefix(name, a+".") })
	})
}

// Latest returns the newest of the versions, "" of none.
func Latest(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, func(a, b string) int { return slices.Compare(parseVersion(a), parseVersion(b)) })
}

var versionForm = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)

// parseVersion returns the three numbers of a version, nil if it is not a version.
func parseVersion(version string) []int {
	m := versionForm.FindStringSubmatch(version)
	if m == nil {
		return nil
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return []int{number(m[1]), number(m[2]), number(m[3])}
}
