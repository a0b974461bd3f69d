package external

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// MaxFound is how many instances one report may list.
const MaxFound = 500

// The limits of one instance; texts are in bytes.
const (
	maxVersion    = 128
	maxReason     = 512
	maxServer     = 253
	maxProperties = 16
	maxKey        = 64
	maxValue      = 256
)

// DefaultWithin is how long a report counts for an agent that names no time.
const DefaultWithin = time.Hour

// The shortest and the longest time for which a report may count.
const (
	shortestWithin = 10 * time.Second
	longestWithin  = 30 * 24 * time.Hour
)

var isName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// CheckAgent refuses an agent whose fields about reports do not fit its kind.
func CheckAgent(a *agentv1.Agent) *apiv1.Refusal {
	external := a.Kind == agentv1.Kind_KIND_EXTERNAL
	switch within := a.ReportWithin; {
	case !external && (a.Reporter != "" || within != nil):
		return refuse(code.UnsupportedKind, "agent %q: only the kind external has a reporter", a.Name)
	case !external && len(a.Wanted) > 0:
		return refuse(code.UnsupportedKind, "agent %q: only the kind external wants versions by its record", a.Name)
	case !external:
		return nil
	case ident.CheckName("reporter", a.Reporter) != nil:
		return refuse(code.BadName, "agent %q of kind external needs a reporter, the name of a user, not %q", a.Name,
			a.Reporter)
	case within != nil && (within.CheckValid() != nil || within.AsDuration() < shortestWithin ||
		within.AsDuration() > longestWithin):
		return refuse(code.Invalid, "agent %q: a report counts from %v to %v", a.Name, shortestWithin,
			longestWithin)
	case len(a.Dependencies) > 0:
		return refuse(code.Invalid, "agent %q of kind external is not installed, and depends on nothing", a.Name)
	}
	return checkWanted(a)
}

// Within returns how long a report of an agent counts.
func Within(a *agentv1.Agent) time.Duration {
	if d := a.GetReportWithin(); d != nil {
		return d.AsDuration()
	}
	return DefaultWithin
}

// check returns what is wrong with an instance; empty when nothing is.
func check(f *externalv1.Found) string {
	switch {
	case !isName.MatchString(f.Name):
		return fmt.Sprintf("the name %.80q: want 1 to 63 letters, digits, dashes and underscores", f.Name)
	case f.Health != instancev1.Health_HEALTH_GOOD && f.Health != instancev1.Health_HEALTH_BAD:
		return "its health must be good or bad"
	case len(f.Digest) != 0 && len(f.Digest) != 32:
		return fmt.Sprintf("its digest has %d bytes; a sha256 has 32", len(f.Digest))
	case len(f.Properties) > maxProperties:
		return fmt.Sprintf("it has %d properties; %d are the most", len(f.Properties), maxProperties)
	}
	texts := []text{
		{"server", f.Server, maxServer}, {"version", f.Version, maxVersion}, {"reason", f.Reason, maxReason},
	}
	for k, v := range f.Properties {
		if k == "" {
			return "a property has no name"
		}
		texts = append(texts, text{"property", k, maxKey}, text{"property " + k, v, maxValue})
	}
	for _, t := range texts {
		if len(t.is) > t.most || !printable(t.is) {
			return fmt.Sprintf("its %.80s must be printable and have %d bytes at most", t.what, t.most)
		}
	}
	return ""
}

// text is a text of a report and its limit in bytes.
type text struct {
	what, is string
	most     int
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func refuse(c, format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{Code: c, Message: fmt.Sprintf(format, args...)}
}

// maxWanted is how many versions the record of an agent wants at most.
const maxWanted = 256

const (
	wantedOfAll = "all"
	wantedIn    = "env="
)

// Wanted returns the version that an instance should have by the record of its agent, the most specific one: by its
// name, then by the environment of its server, then that of all. Empty means that none is wanted.
func Wanted(a *agentv1.Agent, x *externalv1.External, environment string) string {
	keys := []string{x.GetFound().GetName(), wantedIn + environment, wantedOfAll}
	for _, key := range keys {
		if version, ok := a.GetWanted()[key]; ok && (key != wantedIn) {
			return version
		}
	}
	return ""
}

// OfMany reports whether a key of the versions that an agent wants is of several instances.
func OfMany(key string) bool { return key == wantedOfAll || strings.HasPrefix(key, wantedIn) }

// checkWanted refuses versions for what is neither all, an environment nor the name of an instance. An environment
// and an instance may come later.
func checkWanted(a *agentv1.Agent) *apiv1.Refusal {
	if len(a.Wanted) > maxWanted {
		return refuse(code.Invalid, "agent %q wants %d versions; %d are the most", a.Name, len(a.Wanted), maxWanted)
	}
	for key, version := range a.Wanted {
		environment, in := strings.CutPrefix(key, wantedIn)
		if in && ident.CheckName("environment", environment) != nil || !in && !isName.MatchString(key) {
			return refuse(code.Invalid, "agent %q wants a version of %.80q: want all, env=NAME, or the name of an "+
				"instance", a.Name, key)
		}
		if version == "" || len(version) > maxVersion || !printable(version) {
			return refuse(code.Invalid, "agent %q: the version that it wants of %s must be printable and have 1 to "+
				"%d bytes", a.Name, key, maxVersion)
		}
	}
	return nil
}
