package variables

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

var hostWord = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// ofHost reports whether a value can be a part of a host or a port, and of nothing else in an address.
func ofHost(value string) bool { return hostWord.MatchString(value) }

// ofPath reports whether a value can be a part of a path or a query.
func ofPath(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '#'
	})
}

// url fills in the variables of a probe's URL. Its host ends where the manifest says so, whatever the values are.
func (f *filler) url(s string) string {
	end := endOfHost(s)
	return f.fillWith(s[:end], ofHost) + f.fillWith(s[end:], ofPath)
}

// endOfHost returns where the path of a URL begins. The names of variables do not count.
func endOfHost(s string) int {
	at := strings.Index(s, "://")
	if at < 0 {
		return len(s)
	}
	inside := false
	for at += len("://"); at < len(s); at++ {
		switch {
		case strings.HasPrefix(s[at:], "${"):
			inside = true
		case s[at] == '}':
			inside = false
		case !inside && strings.IndexByte("/?#", s[at]) >= 0:
			return at
		}
	}
	return len(s)
}

func (f *filler) refuseValue(name, value string) {
	if f.err == nil {
		f.err = fault.Refusef(fault.Invalid, code.BadVariable,
			"the image's probe uses ${%s}, which is %.80q here and could turn the probe elsewhere", name, value)
	}
}
