package topology

import "strings"

// MayPublish reports whether the user with a name may publish on a subject, by the permissions that the bus enforces.
func (p Permissions) MayPublish(name, subject string) bool {
	for _, pattern := range p.Publish {
		if includes(strings.ReplaceAll(pattern, ownName, name), subject) {
			return true
		}
	}
	return false
}

// includes reports whether a pattern matches a subject, by the rules of NATS.
func includes(pattern, subject string) bool {
	of, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for n, token := range of {
		if token == ">" {
			return len(s) > n
		}
		if n >= len(s) || token != anyToken && token != s[n] {
			return false
		}
	}
	return len(of) == len(s)
}
