package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

// colouring returns what colours a server.
func colouring(v *visit, q *registryv1.ListServersRequest) (func(*serverv1.Server) bar, error) {
	switch textOf(v.Request, "by") {
	case "environment":
		return v.environmentShade, nil
	case "silence":
		return v.silenceShade, nil
	case "version":
		agent := textOf(v.Request, "agent")
		if agent == "" {
			return nil, fault.New(fault.Invalid, "agent is missing; name the agent whose versions the map shows")
		}
		return versionShades(v, q, agent)
	}
	return v.stateShade, nil
}

// filters are the parameters of a list of servers besides on.
var filters = listed["server"].flags[1:]

// selecting returns the address of the servers of the page that other parameters select, too; "" when the list is of
// instances, and what narrows the page is no parameter of theirs.
func (v *visit) selecting(list string, q url.Values) string {
	for _, name := range listed["server"].flags {
		switch value := textOf(v.Request, name); {
		case value == "" || q.Has(name):
		case list == "instances" && name != "on":
			return ""
		default:
			q.Set(name, value)
		}
	}
	return "/console/" + list + "?" + q.Encode()
}

// stateShade colours a server by its life, its standing and its presence.
func (v *visit) stateShade(s *serverv1.Server) bar {
	var words []string
	q := url.Values{}
	for _, is := range []struct{ name, word, usual string }{
		{"life", listing.Word(s.GetLife()), "alive"}, {"standing", listing.Word(s.GetStanding()), "enrolled"},
		{"presence", listing.Word(s.GetPresence()), ""},
	} {
		if is.word == "" {
			continue
		}
		q.Set(is.name, is.word)
		if is.word != is.usual {
			words = append(words, is.word)
		}
	}
	text := cmp.Or(strings.Join(words, ", "), "not heard yet")
	b := bar{Word: text, Class: cmp.Or(toneOf(text), "plain")}
	if s.GetPresence() != 0 || s.GetLife() == serverv1.Life_LIFE_INVITED {
		b.Link = v.selecting("servers", q)
	}
	return b
}

func (v *visit) environmentShade(s *serverv1.Server) bar {
	on := textOf(v.Request, "on")
	switch b := (bar{Word: s.GetEnvironment()}); {
	case s.GetEnvironment() == "":
		return bar{Word: "no environment", Class: "plain"}
	case on == "" || on == "all":
		b.Link = v.selecting("servers", url.Values{"on": {"env=" + s.GetEnvironment()}})
		return b
	default:
		return b
	}
}

// silences are for how long servers did not confirm what they have, the longest first. A shorter one counts those of
// the longer ones, too, as the list of servers does.
var silences = []struct {
	least      time.Duration
	word, tone string
}{
	{7 * 24 * time.Hour, "silent for 7 days or longer", "bad"},
	{24 * time.Hour, "silent for a day or longer", "s3"},
	{time.Hour, "silent for an hour or longer", "look"},
}

// unheard describes servers that the registry has not heard.
const unheard = "not heard since the registry started"

// silenceShade colours a server by when it last confirmed what it has.
func (v *visit) silenceShade(s *serverv1.Server) bar {
	switch {
	case s.GetLife() != serverv1.Life_LIFE_ALIVE && s.GetLife() != serverv1.Life_LIFE_DYING:
		return bar{Word: "did not join yet", Class: "plain"}
	case s.GetInventoryConfirmedAt() == nil:
		return bar{Word: unheard, Class: "s4"}
	}
	for _, is := range silences {
		if v.at.Sub(s.GetInventoryConfirmedAt().AsTime()) >= is.least {
			q := url.Values{"unconfirmed": {fmt.Sprintf("%.0fh", is.least.Hours())}}
			return bar{Word: is.word, Class: is.tone, Link: v.selecting("servers", q)}
		}
	}
	return bar{Word: "heard within an hour", Class: "good"}
}

// versionShades colours servers by the version of an agent.
func versionShades(v *visit, q *registryv1.ListServersRequest, agent string) (func(*serverv1.Server) bar, error) {
	versions := map[string]string{}
	ask := &registryv1.ListInstancesRequest{On: q.GetOn(), Agent: agent}
	for row, err := range v.client.Instances(v.Context(), ask) {
		if err != nil {
			return nil, err
		}
		versions[row.GetInstance().GetServerId()] = cmp.Or(row.GetInstance().GetObserved().GetVersion(), "absent")
	}
	return func(s *serverv1.Server) bar {
		switch version := versions[s.GetId()]; version {
		case "":
			return bar{Word: "without " + agent, Class: "plain"}
		case "absent":
			return bar{Word: agent + " is wanted and absent", Class: "look"}
		default:
			link := v.selecting("instances", url.Values{"agent": {agent}, "version": {version}})
			return bar{Word: version, Link: link}
		}
	}, nil
}

// ranked returns shades as a legend names them, the largest first, and colours those that have no tone.
func ranked(shades map[string]*shade) (out []*shade) {
	silent := 0
	if is := shades[unheard]; is != nil {
		silent = is.Count
	}
	for _, of := range silences {
		if is := shades[of.word]; is != nil {
			silent += is.Count
			is.Count = silent
		}
	}
	for _, is := range shades {
		out = append(out, is)
	}
	slices.SortFunc(out, func(a, b *shade) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Word, b.Word))
	})
	n := 0
	for _, is := range out {
		if is.Class == "" && n < colours {
			is.Class = fmt.Sprintf("s%d", n)
			n++
		}
	}
	return out
}
