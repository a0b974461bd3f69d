package ssh

import (
	"fmt"
	"strings"
	"unicode"
)

// CheckLogin refuses a login that ssh would read as an option, or a shell as more than one word.
func CheckLogin(s string) error {
	if s == "" || strings.HasPrefix(s, "-") ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q is not USER@HOST", s)
	}
	return nil
}
