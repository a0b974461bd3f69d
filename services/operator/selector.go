package operator

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

const selectorHelp = "`SELECTOR`: all, SERVER[,SERVER] (id, unique prefix or name), env=NAME, or LABEL=VALUE[,LABEL=VALUE]; said again, all must hold"

// parseSelector reads the values of --on. Everything that is said must hold.
func parseSelector(on []string) (*intentv1.Selector, error) {
	s := &intentv1.Selector{}
	for _, text := range on {
		if err := addSelector(s, text); err != nil {
			return nil, err
		}
	}
	if !s.All && s.Environment == "" && len(s.Servers) == 0 && len(s.Labels) == 0 {
		return nil, usage("--on is missing: say on which servers. Try: --on all, --on SERVER,SERVER, --on env=NAME, --on LABEL=VALUE")
	}
	return s, nil
}

func addSelector(s *intentv1.Selector, text string) error {
	for _, not := range []string{"!=", "==", "~", "<", ">", " in ", "(", "!"} {
		if strings.Contains(text, not) {
			return usage("--on %q: %q is not understood; only LABEL=VALUE is, several with commas between them", text, strings.TrimSpace(not))
		}
	}
	if text == "all" {
		s.All = true
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return usage("--on %q has an empty part", text)
		}
		if err := addTerm(s, text, part); err != nil {
			return err
		}
	}
	return nil
}

func addTerm(s *intentv1.Selector, text, part string) error {
	key, value, equals := strings.Cut(part, "=")
	switch {
	case equals && (key == "" || value == ""):
		return usage("--on %q: %q lacks a name or a value", text, part)
	case key == "env" || equals && key == "environment":
		if !equals {
			return usage("--on %q: which environment? Try: --on env=NAME", text)
		}
		if s.Environment != "" && s.Environment != value {
			return usage("--on: no server is in two environments, %s and %s", s.Environment, value)
		}
		if err := ident.CheckName("environment", value); err != nil {
			return usage("--on %q: %v", text, err)
		}
		s.Environment = value
	case equals:
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		if have, ok := s.Labels[key]; ok && have != value {
			return usage("--on: no server has two values of the label %s, %s and %s", key, have, value)
		}
		s.Labels[key] = value
	case strings.Contains(text, "="):
		return usage("--on %q mixes names of servers with labels; say --on twice", text)
	case part == "all":
		return usage("--on %q: all stands alone", text)
	default:
		if err := aServer(part); err != nil {
			return usage("--on %q: %v", text, err)
		}
		s.Servers = append(s.Servers, part)
	}
	return nil
}

// selectorArgs writes a selector as it is said on the command line.
func selectorArgs(s *intentv1.Selector) string {
	var out []string
	if s.GetAll() {
		out = append(out, "--on all")
	}
	if len(s.GetServers()) > 0 {
		out = append(out, "--on "+strings.Join(s.GetServers(), ","))
	}
	if s.GetEnvironment() != "" {
		out = append(out, "--on env="+s.GetEnvironment())
	}
	for _, k := range slices.Sorted(maps.Keys(s.GetLabels())) {
		out = append(out, "--on "+quote(k+"="+s.GetLabels()[k]))
	}
	return strings.Join(out, " ")
}

var safe = regexp.MustCompile(`^[A-Za-z0-9_.,:/@=+-]+$`)

// quote makes a word safe to paste into a shell.
func quote(s string) string {
	if safe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// target is an agent and which image of it.
type target struct {
	agent string
	image *intentv1.ImageChoice // nil means the newest of the default channel
	said  string                // what stood behind the @
}

var versionLike = regexp.MustCompile(`^v?[0-9]+\.`)

// parseTarget reads AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL.
func parseTarget(text string) (target, error) {
	agent, said, at := strings.Cut(text, "@")
	t := target{agent: agent, said: said}
	if err := ident.CheckName("agent", agent); err != nil {
		return t, usageError{err.Error()}
	}
	switch {
	case !at:
	case said == "":
		return t, usage("%q: what stands behind the @? Try: %s@VERSION, %s@IMAGE, %s@CHANNEL", text, agent, agent, agent)
	case ident.IsUUID(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: said}}
	case versionLike.MatchString(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	default:
		if err := ident.CheckName("channel", said); err != nil {
			return t, usage("%q is neither a version, nor an image's id, nor a channel", said)
		}
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: said}}
	}
	return t, nil
}

// takenForChannel gives why an order is refused, and explains it where a word was taken for
// a channel: a person who meant a version or the start of an image's id said no channel.
func takenForChannel(o *order) *apiv1.Refusal {
	r := o.record.GetRefusal()
	said := cmp.Or(o.intent.GetInstall().GetImage().GetChannel(), o.intent.GetUpgrade().GetImage().GetChannel())
	if r.GetCode() != "UNKNOWN_CHANNEL" || said == "" {
		return r
	}
	r = proto.CloneOf(r)
	r.Message += fmt.Sprintf("; %q was taken for a channel, since it is neither a version such as 1.2.3 nor an image's whole id", said)
	r.Try = "garrison channel list, or garrison image list " + o.agent + " -o wide"
	return r
}

// parseLabel reads a label and its value.
func parseLabel(word string) (k, v string, err error) {
	k, v, ok := strings.Cut(word, "=")
	if !ok || k == "" {
		return "", "", fmt.Errorf("%q is not LABEL=VALUE", word)
	}
	return k, v, nil
}
