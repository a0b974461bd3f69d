package lobby

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/noun/server"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// RejectedFor is how long a rejected key is refused.
const RejectedFor = 24 * time.Hour

// ServerOf returns the id of the server that a key becomes: repeated acceptance makes one server.
func ServerOf(publicKey string) string { return ident.From("lobby", publicKey) }

// Decide decides a request of a key. s is the server that the key became, or nil; r the rejection of the key, or nil.
// It returns a refusal, or whether the key is admitted as that server; otherwise it waits.
func Decide(
	s *serverv1.Server, r *lobbyv1.Rejection, key string, at time.Time,
) (refusal *apiv1.Refusal, admitted bool) {
	switch {
	case s != nil && s.PublicKey == key && server.Believed(s):
		return nil, true
	case s != nil && server.Managed(s) && server.ShutOut(s):
		return enrol.ShutOut(s), false
	case s != nil:
		return enrol.OthersKey(), false
	case lobby.Holds(r, at):
		text := "the key of this machine was rejected by " + r.RejectedBy
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		return &apiv1.Refusal{
			Code: code.LobbyRejected, Message: text + "; it is refused until " + r.Until.AsTime().Format(time.RFC3339),
			Try: "ask who operates the control plane",
		}, false
	}
	return nil, false
}

// The fields of a machine in the lobby beyond those of its sysinfo.
const (
	fieldAddress     = "address"
	fieldFingerprint = "fingerprint"
)

// Matcher returns a function that reports whether a machine meets all of some conditions.
func Matcher(r selector.Reader, where []*intentv1.Condition) (func(Waiting) bool, *apiv1.Refusal) {
	var rest []*intentv1.Condition
	var own []func(Waiting) bool
	for _, c := range where {
		if c.GetField() != fieldAddress && c.GetField() != fieldFingerprint {
			rest = append(rest, c)
			continue
		}
		match, refusal := ownField(c)
		if refusal != nil {
			return nil, refusal
		}
		own = append(own, match)
	}
	fields := append(slices.Clone(selector.MachineFields), fieldAddress, fieldFingerprint)
	if refusal := selector.CheckConditions(r, rest, fields...); refusal != nil {
		return nil, refusal
	}
	return func(w Waiting) bool {
		return selector.MeetsAll(&serverv1.Server{Sysinfo: w.Sysinfo}, rest) &&
			!slices.ContainsFunc(own, func(match func(Waiting) bool) bool { return !match(w) })
	}, nil
}

// ownField returns a function that reports whether a machine meets a condition on its address or its fingerprint.
func ownField(c *intentv1.Condition) (func(Waiting) bool, *apiv1.Refusal) {
	not := c.GetOperator() == intentv1.Operator_OPERATOR_NOT_IN
	if !not && c.GetOperator() != intentv1.Operator_OPERATOR_IN || len(c.GetValues()) == 0 {
		return nil, badCondition("%s is compared with = or !=, and with a value", c.GetField())
	}
	if c.GetField() == fieldFingerprint {
		return func(w Waiting) bool {
			return not != slices.ContainsFunc(c.Values, func(v string) bool { return Same(w, v) })
		}, nil
	}
	var ranges []string
	for _, text := range c.GetValues() {
		prefix, err := netip.ParsePrefix(text)
		if a, e := netip.ParseAddr(text); e == nil && a.Zone() == "" {
			prefix, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, badCondition("address %.60q; want an address or a prefix such as 10.0.0.0/8", text)
		}
		ranges = append(ranges, prefix.String())
	}
	return func(w Waiting) bool { return not != enrol.Within(ranges, w.Address) }, nil
}

func badCondition(format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.BadSelector, Message: fmt.Sprintf(format, args...), Try: "garrison lobby list --where os=linux",
	}
}

// Same reports whether a reference is the fingerprint of a machine, with or without its dashes, or its public key.
func Same(w Waiting, reference string) bool {
	plain := func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "")) }
	return reference == w.PublicKey || plain(reference) == plain(w.Fingerprint)
}
