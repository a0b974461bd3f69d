package removal

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
)

// why returns the reason of the outcome with its particulars.
func (f *facts) why() string {
	if lifecycle.OfInventory(f.outcome.Code) && f.left.Doubt != "" {
		return f.outcome.Why() + ": " + f.left.Doubt
	}
	return f.outcome.Why()
}

// notUninstalled returns why the executor stays and what to try, or else a given advice.
func (f *facts) notUninstalled(otherwise string) (text, try string) {
	switch {
	case f.outcome.Code != "":
		return decisions[f.outcome.Action] + ", " + f.outcome.Code + ": " + f.why(), otherwise
	case f.Life == serverv1.Life_LIFE_ALIVE:
		return "the server is alive", "garrison server decommission " + f.who.ServerID
	}
	return decisions[f.outcome.Action] + "; the life of the server is " + lifeOf(f.Life), otherwise
}

// print writes the decision, every fact behind it, and every path, for a person.
func (f *facts) print(out io.Writer, c Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	decision := decisions[f.outcome.Action]
	if f.Begun != "" {
		decision = decisions[lifecycle.Uninstall] + ", begun for server " + f.Begun
	} else if f.outcome.Code != "" {
		decision += ", " + f.outcome.Code + ": " + f.why()
	}
	for _, line := range []struct {
		name  string
		value any
	}{
		{"DECISION", decision},
		{"root", c.Root},
		{"server", cmp.Or(f.who.ServerID, "unknown")},
		{"executor running", yes(f.ExecutorRuns)},
		{"identity readable", yes(f.Identity)},
		{"ownership", ownerships[f.Ownership]},
		{"life in the document", lifeOf(f.Life)},
		{"tombstone", f.Proof},
		{"login", f.Login},
		{"bus connected", yes(f.Reachable)},
		{"inventory", f.left.Inventory},
		{"agents left", cmp.Or(strings.Join(f.left.Agents, ", "), "none")},
		{"open changes", cmp.Or(strings.Join(f.left.Changes, ", "), "none")},
	} {
		fmt.Fprintf(w, "%s\t%v\n", line.name, line.value)
	}
	fmt.Fprintln(w, "\nPATH\tWHEN THE EXECUTOR REMOVES ITSELF")
	for _, item := range f.items {
		what := "is removed"
		if item.Agent != "" {
			what = "is removed earlier, with agent " + item.Agent
		} else if item.LeftBecause != "" {
			what = "stays: " + item.LeftBecause
		}
		fmt.Fprintf(w, "%s\t%s\n", item.Path, what)
	}
	for _, path := range installedByHand(c.Program) {
		fmt.Fprintf(w, "%s\tstays: %s\n", path, byHand)
	}
	return w.Flush()
}

// decisions are the actions in the words of a preview.
var decisions = map[lifecycle.Action]string{
	lifecycle.Work:      "the executor stays and works",
	lifecycle.Suspend:   "the executor stays, suspended",
	lifecycle.Rest:      "the executor stays, and has nothing to do",
	lifecycle.Uninstall: "the executor removes itself",
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

var ownerships = map[serverv1.Ownership]string{
	serverv1.Ownership_OWNERSHIP_UNSPECIFIED: "unknown",
	serverv1.Ownership_OWNERSHIP_MANUAL:      "manual",
	serverv1.Ownership_OWNERSHIP_PROVISIONED: "provisioned",
}

func lifeOf(l serverv1.Life) string {
	if l == serverv1.Life_LIFE_UNSPECIFIED {
		return "unknown: no document was read"
	}
	return strings.ToLower(strings.TrimPrefix(l.String(), "LIFE_"))
}
