package env

import (
	"fmt"
	"strings"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// times is what env window sets of an environment.
type times struct {
	windows []*environmentv1.Window
	all     bool        // windows replace those that were set, also with none
	fetch   environment // when servers fetch ahead; nil leaves it
}

// parseTimes parses the windows and the values of --fetch.
func parseTimes(windows []string, none bool, fetch []string) (t times, err error) {
	t.all = none || len(windows) > 0
	if t.windows, err = parseWindows(windows); err != nil {
		return t, err
	}
	t.fetch, err = parseFetch(fetch)
	return t, err
}

// set sets the times.
func (t times) set(e environment) {
	if t.all {
		e.Windows = t.windows
	}
	if t.fetch != nil {
		e.FetchAlways, e.FetchWindows = t.fetch.GetFetchAlways(), t.fetch.GetFetchWindows()
	}
}

// text returns what is set.
func (t times) text() string {
	var done []string
	if t.all {
		done = append(done, "may be changed: "+orAlways(windowsText(t.windows)))
	}
	if t.fetch != nil {
		done = append(done, "fetches ahead: "+fetchText(t.fetch))
	}
	return strings.Join(done, "; ")
}

// parseWindows parses several windows.
func parseWindows(texts []string) (windows []*environmentv1.Window, err error) {
	for _, text := range texts {
		w, err := parseWindow(text)
		if err != nil {
			return nil, err
		}
		windows = append(windows, w)
	}
	return windows, nil
}

// parseFetch parses when servers fetch ahead; nil where nothing is said.
func parseFetch(texts []string) (environment, error) {
	switch {
	case len(texts) == 0:
		return nil, nil
	case len(texts) == 1 && texts[0] == "always":
		return &environmentv1.Environment{FetchAlways: true}, nil
	case len(texts) == 1 && texts[0] == "never":
		return &environmentv1.Environment{}, nil
	}
	windows, err := parseWindows(texts)
	if err != nil {
		return nil, fmt.Errorf("--fetch: %w; or --fetch always, or --fetch never", err)
	}
	return &environmentv1.Environment{FetchWindows: windows}, nil
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
