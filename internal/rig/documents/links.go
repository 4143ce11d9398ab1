package documents

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	scheme  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span    = regexp.MustCompile("`[^`\n]*`")
)

// Anchors returns the anchors of the headings of a document, as GitHub makes them.
func Anchors(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := slugOf(link.ReplaceAllString(m[1], "]"))
		for i, name := 1, slug; ; i++ {
			if !anchors[name] {
				anchors[name] = true
				break
			}
			name = fmt.Sprintf("%s-%d", slug, i)
		}
	}
	return anchors
}

func slugOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
}

// A Link is a relative link of a document. File is "" for the document itself.
type Link struct {
	File, Anchor string
}

// Links returns the relative links of a document, without those in code.
func Links(text string) []Link {
	var links []Link
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
		if scheme.MatchString(m[1]) {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		links = append(links, Link{file, anchor})
	}
	return links
}
