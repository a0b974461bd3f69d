package enrol

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

// Request is a request to enrol with a pooled token.
type Request struct {
	*registryv1.EnrolRequest
	Cell string
	From netip.Addr // as the bus saw it; the zero Addr when it does not know
}

// ServerOf returns the id of the server that joins with a token and a key. A repeated request has the same id, so that
// it counts once.
func ServerOf(token, publicKey string) string { return ident.From("token", token, publicKey) }

// Pooled decides a request with a pooled token; t is nil for an unknown one. s is the server that joined with the token
// and the key before, or nil. It returns a refusal, or whether the server is to be recorded: a repeated request has the
// same answer as the first, also when the token was used up meanwhile.
func Pooled(t *tokenv1.Token, s *serverv1.Server, q Request, at time.Time) (refusal *apiv1.Refusal, record bool) {
	hash := sha256.Sum256([]byte(q.GetSecret()))
	if t == nil || t.Cell != q.Cell || subtle.ConstantTimeCompare(hash[:], t.SecretSha256) != 1 {
		return pooled(code.UnknownToken, "no token has this secret"), false
	}
	info := q.GetSysinfo()
	if q.GetPublicKey() == "" || info.GetPlatform().GetOs() == "" || info.GetPlatform().GetArch() == "" {
		return pooled(code.Malformed, "a request to enrol needs a public key and a sysinfo with its platform"), false
	}
	if !Within(t.FromAddresses, q.From) {
		return pooled(code.OutsideRange, fmt.Sprintf("the token may not be used from %s", addressText(q.From))), false
	}
	switch {
	case t.State == tokenv1.State_STATE_REVOKED:
		return pooled(code.TokenRevoked, "the token was revoked"), false
	case s != nil && server.Believed(s) && s.PublicKey == q.PublicKey:
		return nil, false
	case s != nil:
		return usedKey("a server that joined with this token had this key before"), false
	case !at.Before(t.ExpiresAt.AsTime()):
		return pooled(code.ExpiredToken, "the token expired at "+t.ExpiresAt.AsTime().Format(time.RFC3339)), false
	case t.Used >= t.Uses:
		return pooled(code.TokenUsedUp, fmt.Sprintf("%d servers joined with the token, as many as may", t.Used)), false
	}
	return nil, true
}

// Within reports whether an address is in one of the ranges; every address is without ranges, and none that is not
// known is in one.
func Within(ranges []string, from netip.Addr) bool {
	return len(ranges) == 0 || from.IsValid() && slices.ContainsFunc(ranges, func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Contains(from)
	})
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "an address that the bus does not know"
	}
	return a.String()
}

func pooled(code, message string) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code, Message: message, Try: "a new token: garrison token create NAME --uses N"}
}

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
