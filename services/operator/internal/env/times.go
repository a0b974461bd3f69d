package env

import (
	"fmt"

	"github.com/spf13/pflag"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

// timesHelp is what help says of windows and budgets, below the flags' own lines.
const timesHelp = `

A window is "[DAYS] FROM-UNTIL [ZONE]": days such as Mon-Fri or Sat,Sun, a time until which it lasts that may be on the
next day, and an IANA time zone; without days each day, without a zone UTC. Outside of the windows, rollouts wait, and
other intents are refused with the code CLOSED; what has begun ends by itself. --override on a change, and --emergency
on a rollout, pass. With --fetch, the servers of rollouts that wait fetch their images ahead. Nothing else happens
before the window opens, and a hold does not stop it, as no agent changes.

A budget is N/FIELD or N%/FIELD: at least so many of the servers with each value of a label, such as 2/label.rack, or of
the whole environment, such as 90%/env; percentages are rounded up. A server works while it is online, no change is
under way on it, and its agents are healthy. No task takes a working server away that a budget needs, whatever asks for
the task. It waits in the queue, and garrison task list shows why. All rollouts share the budget, also in the emergency
lane. A server that does not work costs nothing, so that it can be repaired.`

// none empties a list that a repeatable flag replaces.
const none = "none"

// timesFlags adds the flags of windows and budgets. Each replaces the whole list that was set before.
func timesFlags(f *pflag.FlagSet, said *record.Edits[environment]) {
	record.EditVar(f, said, "window", "when agents on its servers may be changed: a `WINDOW` such as \"Mon-Fri "+
		"22:00-04:00 Europe/Berlin\"; repeatable; none: at any time", listReader(parseWindow),
		func(e environment, v []*environmentv1.Window) { e.Windows = v })
	record.EditVar(f, said, "keep", "how many of its servers must work at any moment: a budget such as 2/label.rack "+
		"or 90%/env, `N/FIELD`; repeatable; none: no budget", listReader(cli.ReadKeep),
		func(e environment, v []*rolloutv1.Keep) { e.Keep = v })
	var fetch environment
	record.EditVar(f, said, "fetch", "`WHEN` servers fetch ahead what rollouts bring them while they may not be "+
		"changed: always, never, or a window; repeatable",
		func(text string) (next environment, err error) {
			if next, err = parseFetch(fetch, text); err == nil {
				fetch = next
			}
			return next, err
		}, func(e environment, v environment) { e.FetchAlways, e.FetchWindows = v.FetchAlways, v.FetchWindows })
}

// listReader returns a reader of a flag whose values make a list, which none empties.
func listReader[T any](read func(string) (T, error)) func(string) ([]T, error) {
	var list []T
	given := false
	return func(text string) ([]T, error) {
		if given && (text == none || len(list) == 0) {
			return nil, fmt.Errorf("none stands alone")
		}
		given = true
		if text == none {
			return nil, nil
		}
		v, err := read(text)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		return list, nil
	}
}

// parseFetch adds a value of --fetch to those before it; nil before the first.
func parseFetch(have environment, text string) (environment, error) {
	alone := text == "always" || text == "never"
	if have != nil && (alone || len(have.GetFetchWindows()) == 0) {
		return nil, fmt.Errorf("always and never stand alone")
	}
	if alone {
		return &environmentv1.Environment{FetchAlways: text == "always"}, nil
	}
	w, err := parseWindow(text)
	if err != nil {
		return nil, fmt.Errorf("%w, always or never", err)
	}
	return &environmentv1.Environment{FetchWindows: append(have.GetFetchWindows(), w)}, nil
}

// fetchText returns when servers fetch ahead.
func fetchText(e environment) string {
	switch {
	case e.GetFetchAlways():
		return "at any time"
	case len(e.GetFetchWindows()) == 0:
		return "never"
	}
	return windowsText(e.GetFetchWindows())
}
