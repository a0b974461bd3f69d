package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
)

func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...).From(ledger.Catalog)
}

// noReference refuses a reference that is neither an id nor the start of one.
func (v *View) noReference(ref string) error {
	if count, newest := v.versions(ref); count > 0 {
		return refuse(fault.NotFound, code.NoMatch,
			"%q is an agent with %s; name one by its id or as agent@version", ref, counted(count, "image")).
			Near(ref + "@" + newest.raw).Try("garrison image list " + ref)
	}
	return refuse(fault.NotFound, code.NoMatch,
		"no image has an id that starts with %q (%s searched); "+
			"name one by its id, a prefix of it, or as agent@version", ref, counted(v.images.Len(), "image")).
		Near(nearest.Name(ref, slices.Values(v.agents()))).Try("garrison image list")
}

// noVersion refuses agent@version.
func (v *View) noVersion(agent, version string) error {
	count, newest := v.versions(agent)
	if count == 0 {
		agents := v.agents()
		return refuse(fault.NotFound, code.NoMatch, "no image of agent %q (%s of %s searched)",
			agent, counted(v.images.Len(), "image"), counted(len(agents), "agent")).
			Near(nearest.Name(agent, slices.Values(agents))).Try("garrison image list")
	}
	return refuse(fault.NotFound, code.NoMatch, "no image of agent %q version %s (%s searched, newest %s)",
		agent, version, counted(count, "image"), newest.raw).
		Near(agent + "@" + newest.raw).Try("garrison image list " + agent)
}

func (v *View) noChannel(name string) error {
	var names []string
	for n := range v.channels.All() {
		names = insert(names, n)
	}
	return refuse(fault.NotFound, code.UnknownChannel, "no channel %q (%s searched: %s)",
		name, counted(len(names), "channel"), strings.Join(names[:min(len(names), 20)], ", ")).
		Near(nearest.Name(name, slices.Values(names))).Try("garrison channel list")
}

// counted returns a number and what it counts, such as "1 image" or "2 images".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
