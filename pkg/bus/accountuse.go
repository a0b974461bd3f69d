package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// AccountUse is how much an account uses the servers of the bus.
type AccountUse struct {
	Connections     int
	Messages, Bytes uint64 // that its clients sent since the servers started, over connections that ended too
}

// AccountUses returns how much accounts use the n servers of the bus, by their keys. It costs a server of the bus the
// same, however many connections there are.
func (s *System) AccountUses(ctx context.Context, accountKeys []string, n int) (map[string]AccountUse, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	query, err := json.Marshal(map[string]any{"accounts": accountKeys, "include_unused": true})
	if err != nil {
		return nil, err
	}
	answered, uses := 0, map[string]AccountUse{}
	err = s.askServers(ctx, topology.SystemAccountStats, query, func(answer []byte) (bool, error) {
		if err := addUses(uses, answer); err != nil {
			return false, err
		}
		answered++
		return answered >= n, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the use of accounts (%d of %d servers of the bus answered): %w", answered, n, err)
	}
	return uses, nil
}

// addUses adds what one server of the bus answered.
func addUses(uses map[string]AccountUse, answer []byte) error {
	var a struct {
		Data struct {
			Accounts []struct {
				Key         string `json:"acc"`
				Connections int    `json:"conns"`
				Received    struct {
					Messages uint64 `json:"msgs"`
					Bytes    uint64 `json:"bytes"`
				} `json:"received"`
			} `json:"account_statz"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return fault.New(fault.Unavailable, "read the bus's answer: %w", err)
	}
	for _, of := range a.Data.Accounts {
		use := uses[of.Key]
		use.Connections += of.Connections
		use.Messages += of.Received.Messages
		use.Bytes += of.Received.Bytes
		uses[of.Key] = use
	}
	return nil
}
