// Package page reads the page of the refusal codes, CODES.md of package code.
package page

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Item is one code of the page.
type Item struct {
	Subject string   // the section
	Code    string   // capitals and underscores
	By      []string // the programs that refuse with it
	Meaning string   // one or more sentences
	Remedy  string   // what to try; words in capitals stand for names from the refusal
}

// programs are those that refuse.
var programs = []string{
	"access", "executor", "garrison", "garrisond", "gateway", "image-catalog", "registry", "task-dispatcher",
}

// form is that of one code, its lines joined: - `CODE` (PROGRAM, PROGRAM): Meaning. **Try:** Remedy
var form = regexp.MustCompile("^- `([A-Z]+(?:_[A-Z]+)*)` \\(([a-z, -]+)\\): (\\S.*\\.) \\*\\*Try:\\*\\* (\\S.*)$")

// Read returns the codes of a page in its order. It refuses a duplicate, and what has another form.
func Read(page string) ([]Item, error) {
	var items []Item
	seen := map[string]bool{}
	_, page, _ = strings.Cut(page, "\n## ")
	for section := range strings.SplitSeq(page, "\n## ") {
		subject, list, _ := strings.Cut(section, "\n")
		for text := range strings.SplitSeq(strings.TrimSpace(list), "\n- ") {
			text = "- " + strings.Join(strings.Fields(strings.TrimPrefix(text, "- ")), " ")
			m := form.FindStringSubmatch(text)
			if m == nil {
				return nil, fmt.Errorf("not - `CODE` (PROGRAM, …): Meaning. **Try:** Remedy: %s", text)
			}
			i := Item{subject, m[1], strings.Split(m[2], ", "), m[3], m[4]}
			if seen[i.Code] {
				return nil, fmt.Errorf("duplicate code %s", i.Code)
			}
			seen[i.Code] = true
			for _, p := range i.By {
				if !slices.Contains(programs, p) {
					return nil, fmt.Errorf("%s: unknown program %q", i.Code, p)
				}
			}
			items = append(items, i)
		}
	}
	return items, nil
}
