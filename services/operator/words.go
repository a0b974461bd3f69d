package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// word gives an enum's value as a person says it: STATE_CONVERGED is converged.
func word[E interface {
	protoreflect.Enum
	String() string
}](e E) string {
	if e.Number() == 0 {
		return ""
	}
	name := string(e.Descriptor().Values().ByNumber(0).Name())
	prefix := strings.TrimSuffix(name, "UNSPECIFIED")
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.String(), prefix)), "_", "-")
}

// words lists what may be said for an enum.
func words(d protoreflect.EnumDescriptor) []string {
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	var out []string
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 {
			out = append(out, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix)), "_", "-"))
		}
	}
	return out
}

// parseWord reads an enum's value as a person says it.
func parseWord[E interface {
	protoreflect.Enum
	~int32
}](s string) (E, error) {
	var zero E
	d := zero.Descriptor()
	for i, w := range words(d) {
		if strings.EqualFold(w, s) {
			return E(d.Values().Get(i + 1).Number()), nil
		}
	}
	return zero, fmt.Errorf("%q is not known (want %s)", s, strings.Join(words(d), ", "))
}

// age says how long ago a time was, in one unit.
func age(v view, t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	if v.wide {
		return stamp(t)
	}
	return span(v.at.Sub(t.AsTime()))
}

func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// until says when something will be.
func until(v view, t *timestamppb.Timestamp) string {
	if d := t.AsTime().Sub(v.at); d > 0 {
		return "within " + span(d)
	}
	return "overdue"
}

// stamp writes a time so that it sorts and can be given to --since.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// pairs writes a map as k=v,k=v.
func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

// size writes bytes with a binary unit.
func size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// plural writes a count and its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// nearest gives the name that differs least from an asked one, or "" when all differ by
// more than a third of it; two letters that changed places are two differences.
func nearest(asked string, names []string) string {
	best, least := "", min(len(asked), max(2, len(asked)/3)+1)
	for _, n := range names {
		if d := distance(asked, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is Levenshtein's: the letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func count[N uint32 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
