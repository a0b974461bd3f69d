package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// flagGroup is the annotation of a flag that help shows below a title of its own.
const flagGroup = "group"

// GroupFlags has help show flags below a title. Names that the set lacks are left out.
func GroupFlags(f *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, flagGroup, []string{title}) // it fails for a flag that is not there
	}
}

// FlagGroup is a part of the flags of a command.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// FlagGroups returns the flags of a command as help shows them: those without a group first, and
// the others by title.
func FlagGroups(f *pflag.FlagSet) []FlagGroup {
	groups := []FlagGroup{{Title: "Flags", Flags: &pflag.FlagSet{}}}
	f.VisitAll(func(f *pflag.Flag) {
		title := groups[0].Title
		if named := f.Annotations[flagGroup]; len(named) > 0 {
			title = named[0]
		}
		n := slices.IndexFunc(groups, func(g FlagGroup) bool { return g.Title == title })
		if n < 0 {
			n, groups = len(groups), append(groups, FlagGroup{Title: title, Flags: &pflag.FlagSet{}})
		}
		groups[n].Flags.AddFlag(f)
	})
	slices.SortFunc(groups[1:], func(a, b FlagGroup) int { return strings.Compare(a.Title, b.Title) })
	return groups
}
