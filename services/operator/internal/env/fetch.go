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
		return nil, fmt.Errorf("%w; or --fetch always, or --fetch never", err)
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
