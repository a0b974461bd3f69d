package listing

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// OneLine replaces every run of white space, line breaks included, by one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ShortID returns the first part of an id, which is unique in practice; in the wide view the whole id.
func ShortID(v View, id string) string {
	if v.Wide {
		return id
	}
	return ident.Handle(id)
}

// Lines formats a map as k=v, one pair per line. It shows of a secret only that it is one.
func Lines(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+metadata.Text(m[k]))
	}
	return strings.Join(out, "\n")
}

// DigestText returns a digest in hexadecimal, shortened unless the view is wide.
func DigestText(v View, digest []byte) string {
	text := hex.EncodeToString(digest)
	if !v.Wide {
		text = text[:min(12, len(text))]
	}
	return text
}

// Quote returns a word quoted for a shell where that is necessary.
func Quote(s string) string { return fault.Quote(s) }

// Dash returns a text, or "none" for an empty one.
func Dash(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Known reports whether this program knows an enum's value: a newer service may send another one.
func Known(e protoreflect.Enum) bool { return e.Descriptor().Values().ByNumber(e.Number()) != nil }

// Word returns the word for an enum's value: converged for STATE_CONVERGED, unknown-9 for one that is not known.
func Word[E interface {
	protoreflect.Enum
	String() string
}](e E) string {
	if e.Number() == 0 {
		return ""
	}
	if !Known(e) {
		return "unknown-" + e.String()
	}
	return WordOf(e.Descriptor(), e.String())
}

// WordOf returns the word for the name of an enum's value.
func WordOf(d protoreflect.EnumDescriptor, name string) string {
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", "-")
}

// Words returns the words of all values of an enum.
func Words(d protoreflect.EnumDescriptor) []string {
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	var out []string
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 {
			out = append(out,
				strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix)), "_", "-"))
		}
	}
	return out
}

// ParseWord returns the value of an enum for its word.
func ParseWord[E interface {
	protoreflect.Enum
	~int32
}](s string) (E, error) {
	var zero E
	d := zero.Descriptor()
	for i, w := range Words(d) {
		if strings.EqualFold(w, s) {
			return E(d.Values().Get(i + 1).Number()), nil
		}
	}
	return zero, fmt.Errorf("unknown value %q (want %s)", s, strings.Join(Words(d), ", "))
}

// Yes returns "yes" or "".
func Yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// Pairs formats a map as k=v,k=v.
func Pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+metadata.Text(m[k]))
	}
	return strings.Join(out, ",")
}

// Size formats a number of bytes with a binary unit.
func Size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// Written says that a file was written, with its size.
func Written(path string, bytes int64) string { return "written " + path + ", " + Size(uint64(bytes)) }

// Plural formats a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Count formats a number, and 0 as "".
func Count[N uint32 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Age returns how long ago a time was, in one unit; in the wide view the time itself.
func Age(v View, t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	if v.Wide {
		return Stamp(t)
	}
	return Span(v.At.Sub(t.AsTime()))
}

// Span formats a duration in one unit, rounded down.
func Span(d time.Duration) string {
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

// Until returns the time left before a deadline.
func Until(v View, t *timestamppb.Timestamp) string {
	if d := t.AsTime().Sub(v.At); d > 0 {
		return "within " + Span(d)
	}
	return "overdue"
}

// Stamp formats a time so that it sorts, and --since accepts it.
func Stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

// Tone is what a word for a state means to a person who looks for trouble.
type Tone string

// The tones.
const (
	Plain Tone = ""     // in between
	Good  Tone = "good" // as it should be
	Look  Tone = "look" // it waits, or needs a look
	Bad   Tone = "bad"  // it failed
	Past  Tone = "past" // it is over
)

// Tones are the tones of the words for states.
var Tones = map[string]Tone{
	"failed": Bad, "undone": Bad, "bad": Bad, "offline": Bad, "broken": Bad, "halted": Bad, "refused": Bad,
	"revoked": Bad, "expired": Bad, "duplicate": Bad, "suspended": Bad,

	"held": Look, "late": Look, "paused": Look, "pending": Look, "drifted": Look, "removing": Look,
	"dying": Look, "quarantined": Look, "absent": Look, "cancelled": Look, "aborted": Look, "owed": Look,
	"disabled": Look, "unactivated": Look, "waiting": Look, "due": Look, "left-out": Look, "leaked": Look,
	"stale": Look, "ahead": Look, "found": Look, "reinstalling": Look, "uninstalling": Look, "slow": Look,
	"note": Look, "blocked": Look, "busy": Look,

	"converged": Good, "good": Good, "online": Good, "succeeded": Good, "active": Good, "present": Good,
	"valid": Good, "done": Good,

	"invited": Plain, "alive": Plain, "enrolled": Plain, "queued": Plain, "assigned": Plain, "running": Plain,
	"planned": Plain, "reached": Plain, "accepted": Plain, "resting": Plain, "external": Plain,

	"dead": Past, "gone": Past, "superseded": Past, "withdrawn": Past, "used-up": Past, "removed": Past,
	"beyond": Past,
}
