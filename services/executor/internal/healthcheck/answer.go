package healthcheck

import (
	"errors"
	"net"
)

// answer is the error of a probe that got an answer, and not a good one.
type answer struct{ error }

func (a answer) Unwrap() error { return a.error }

// answered marks an error as an answer.
func answered(err error) error {
	if err == nil {
		return nil
	}
	return answer{err}
}

// Silent reports whether a probe failed because nothing answered it: no connection, or nothing in time. An agent that
// says that it cannot work does answer, and a name that cannot be looked up says nothing about the agent.
func Silent(err error) bool {
	var name *net.DNSError
	return err != nil && !errors.As(err, new(answer)) && !errors.As(err, &name)
}
