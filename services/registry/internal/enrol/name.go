package enrol

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

const (
	// maxName is how long a name is that was made of a host name; a suffix still fits behind it.
	maxName = 50
	// maxSuffix is the last number that is tried behind a name that is taken.
	maxSuffix = 99
)

// NameOf returns the name of a server that joins with a pooled token, one that is not taken. It is the host name, in
// lower case and with dashes for what a name cannot hold. Where that is taken, a number follows, from 2 on, and after
// 99 of them the first digits of the server's id. Without a usable host name, as localhost, it is made of the id.
func NameOf(from tokenv1.NameFrom, hostname, id string, taken func(string) bool) string {
	byID := "server-" + ident.Short(id)
	base := cleaned(hostname)
	if from == tokenv1.NameFrom_NAME_FROM_ID || base == "" || ident.CheckHostname("server", base) != nil ||
		ident.IsUUID(base) || unnamed(base) {
		base = byID
	}
	if !taken(base) {
		return base
	}
	for n := 2; n <= maxSuffix; n++ {
		if name := fmt.Sprintf("%s-%d", base, n); !taken(name) {
			return name
		}
	}
	return base + "-" + ident.Short(id)
}

// unnamed reports whether a host name is the one of a machine that was never given any: each has the same. Linux has
// "(none)" until a name is set.
func unnamed(hostname string) bool {
	first, _, _ := strings.Cut(hostname, ".")
	switch first {
	case "localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "none":
		return true
	}
	return false
}

// cleaned returns a host name as the name of a server has it.
func cleaned(hostname string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, hostname)
	return strings.Trim(fmt.Sprintf("%.*s", maxName, name), ".-")
}
