package ansible

import (
	"net/netip"
	"regexp"
	"strings"
)

// The forms of a host with its port: a name or an IPv4 address, with ranges, or an IPv6 address in brackets. One
// without brackets has no port.
var (
	nameAndPort = regexp.MustCompile(`^((?:[^\[\]:]|\[[^\[\]]*\])+):[0-9]+$`)
	inBrackets  = regexp.MustCompile(`^\[(.+)\]:[0-9]+$`)
)

// withoutPort returns a host without the port behind it, and an IPv6 address without its brackets.
func withoutPort(host string) string {
	for _, form := range []*regexp.Regexp{nameAndPort, inBrackets} {
		if m := form.FindStringSubmatch(host); m != nil {
			host = m[1]
			break
		}
	}
	if bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"); isIPv6(bare) {
		return bare
	}
	return host
}

// isIPv6 reports whether a text is an IPv6 address.
func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6()
}
