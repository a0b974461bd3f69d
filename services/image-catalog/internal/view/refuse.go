package view

import (
	"fmt"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// hint is what a refusal says beside its message.
type hint struct{ nearest, try string }

func refuse(kind fault.Kind, code string, h hint, format string, args ...any) error {
	return fault.Refuse(kind, &apiv1.Refusal{Code: code, Component: ledger.Catalog, Message: fmt.Sprintf(format, args...), Nearest: h.nearest, Try: h.try})
}

// noReference refuses a reference that is neither an id, nor the start of one.
func (v *View) noReference(ref string) error {
	if count, newest := v.versions(ref); count > 0 {
		return refuse(fault.NotFound, "NO_MATCH", hint{ref + "@" + newest.raw, "garrison image list " + ref},
			"%q is an agent with %d images; name one by its id or as agent@version", ref, count)
	}
	return refuse(fault.NotFound, "NO_MATCH", hint{nearest(ref, v.agents()), "garrison image list"},
		"no image has an id that starts with %q (%d images searched); name one by its id, a prefix of it, or as agent@version", ref, v.images.Len())
}

// noVersion refuses agent@version.
func (v *View) noVersion(agent, version string) error {
	count, newest := v.versions(agent)
	if count == 0 {
		agents := v.agents()
		return refuse(fault.NotFound, "NO_MATCH", hint{nearest(agent, agents), "garrison image list"},
			"no image of agent %q (%d images of %d agents searched)", agent, v.images.Len(), len(agents))
	}
	return refuse(fault.NotFound, "NO_MATCH", hint{agent + "@" + newest.raw, "garrison image list " + agent},
		"no image of agent %q version %s (%d images searched, newest %s)", agent, version, count, newest.raw)
}

func (v *View) noChannel(name string) error {
	var names []string
	for n := range v.channels.All() {
		names = insert(names, n)
	}
	return refuse(fault.NotFound, "NO_CHANNEL", hint{nearest(name, names), "garrison channel list"},
		"no channel %q (%d channels searched: %s)", name, len(names), strings.Join(names[:min(len(names), 20)], ", "))
}

// nearest gives the name with the fewest edits from want, if less than half of it differs.
func nearest(want string, names []string) string {
	best, least := "", (len(want)+1)/2+1
	for _, n := range names {
		if d := distance(want, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements between two names (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
