package archive

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Reserved is the name, at the top of an image, of the mark with which an executor seals it.
const Reserved = ".garrison-image"

// MaxName bounds the name of an entry and the target of a link, in bytes.
const MaxName = 4 << 10

const (
	rename      = "another name, then garrison image build DIR"
	reservedTop = Reserved + "/"
)

// CheckName returns the clean form of an entry's name, or refuses it: a name that is too long, not printable UTF-8,
// or holds a backslash (BAD_NAME), that does not stay within the image (UNSAFE_PATH), or that is reserved
// (RESERVED_NAME).
func CheckName(name string) (string, error) {
	if len(name) > MaxName {
		return "", badName("the name %.40q… has %d bytes, more than %d", name, len(name), MaxName)
	}
	if why := unprintable(name); why != "" {
		return "", badName("the name %q %s", name, why)
	}
	clean := path.Clean(name)
	if name == "" || path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fault.Refusef(fault.Invalid, code.UnsafePath, "the name %q does not stay within the image", name)
	}
	if clean == Reserved || strings.HasPrefix(clean, reservedTop) {
		return "", fault.Refusef(fault.Invalid, code.ReservedName, "the name %q is reserved for Garrison", name).
			Try(rename)
	}
	return clean, nil
}

func badName(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadName, format, args...).Try(rename)
}

// unprintable returns what a name or the target of a link holds that it must not, or nothing.
func unprintable(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "has a control character"
	case strings.Contains(s, `\`):
		return "has a backslash"
	}
	return ""
}
