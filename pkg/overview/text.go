package overview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

// versionsShown is how many pairs of an agent and a version a screen shows.
const versionsShown = 12

// lineWidth is how wide a line with free text is at most.
const lineWidth = 80

// Text returns the screen. The wide one has every version.
func (f Fleet) Text(wide bool) string {
	var b strings.Builder
	line := func(what string, total int, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-10s %6d  %s", what, total, strings.Join(parts, "; ")), " "))
	}
	life := maps.Clone(f.Servers.Life)
	delete(life, "alive") // they are counted by presence
	standing := maps.Clone(f.Servers.Standing)
	delete(standing, "enrolled")
	line("servers", f.Servers.Total, words(f.Servers.Presence, "online"), words(life, "invited"), words(standing, ""))
	line("instances", f.Instances.Total, words(f.Instances.State, "converged"), words(f.Instances.Health, "good"))
	if f.Tasks != nil {
		under := 0
		for _, n := range f.Tasks {
			under += n
		}
		line("tasks", under, words(f.Tasks, "running"))
	}
	if len(f.Rollouts) > 0 {
		line("rollouts", len(f.Rollouts))
		for _, r := range f.Rollouts[:min(len(f.Rollouts), rolloutsNamed)] {
			text := fmt.Sprintf("  %s  %s: %s, wave %s", ident.Handle(r.Id), r.Title, r.State, r.Wave)
			fmt.Fprintln(&b, cut(text))
		}
		if more := len(f.Rollouts) - rolloutsNamed; more > 0 {
			fmt.Fprintf(&b, "  … and %d more: garrison rollout list --state running,paused\n", more)
		}
	}
	if f.Holds > 0 {
		line("holds", f.Holds)
	}
	f.printVersions(&b, wide)
	printPoints(&b, "ENDS BY ITSELF", f.Waiting)
	printPoints(&b, "NEEDS A PERSON", f.Attention)
	if len(f.Attention) == 0 {
		fmt.Fprintln(&b, "\nNothing needs a person.")
	}
	return b.String()
}

// cut returns a line of at most lineWidth columns.
func cut(text string) string {
	if runes := []rune(text); len(runes) > lineWidth {
		return string(runes[:lineWidth-1]) + "…"
	}
	return text
}

// printPoints prints points, each with its command on the same line where that fits.
func printPoints(b *strings.Builder, title string, points []AttentionPoint) {
	if len(points) > 0 {
		fmt.Fprintf(b, "\n%s\n", title)
	}
	for _, p := range points {
		text := fmt.Sprintf("%6d  %s: %s", p.Count, p.What, p.Next)
		if len([]rune(text)) > lineWidth {
			text = fmt.Sprintf("%6d  %s\n        %s", p.Count, p.What, p.Next)
		}
		fmt.Fprintln(b, text)
	}
}

func (f Fleet) printVersions(b *strings.Builder, wide bool) {
	if len(f.Versions) == 0 {
		return
	}
	shown := f.Versions
	if !wide {
		shown = shown[:min(len(shown), versionsShown)]
	}
	agent, version := len("AGENT"), len("VERSION")
	for _, v := range shown {
		agent, version = max(agent, len(v.Agent)), max(version, len(v.Version))
	}
	fmt.Fprintf(b, "\n%-*s  %-*s  INSTANCES\n", agent, "AGENT", version, "VERSION")
	left := f.Others
	for n, v := range f.Versions {
		if n >= len(shown) {
			left += v.Count
			continue
		}
		fmt.Fprintf(b, "%-*s  %-*s  %d\n", agent, v.Agent, version, listing.Cell(v.Version), v.Count)
	}
	if left > 0 {
		fmt.Fprintf(b, "… and %d instances of others: garrison instance list --count-by agent,version\n", left)
	}
}

// words returns counts with their names, first before the others, which are sorted by count.
func words(counts map[string]int, first string) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		switch {
		case a == first:
			return -1
		case b == first:
			return 1
		case counts[a] != counts[b]:
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, name := range names {
		if counts[name] > 0 {
			shown := name
			if shown == "" {
				shown = "unknown"
			}
			out = append(out, fmt.Sprintf("%d %s", counts[name], shown))
		}
	}
	return strings.Join(out, ", ")
}
