package sim

import (
	"errors"
	"fmt"
)

const (
	// SpareFiles is how many files a fleet has open at most beside one connection for each server.
	SpareFiles = 256
	// filesAtOnce is how many of them are the state and the credentials of servers.
	filesAtOnce = 64
	// namedEnds is how many of the servers that ended by themselves an error names.
	namedEnds = 3
)

// files bounds how many files the servers of a fleet have open at the same time, beside their connections.
type files chan struct{}

func newFiles() files { return make(files, filesAtOnce) }

// do waits for its turn, and calls work, which has one file open at a time.
func (f files) do(work func() error) error {
	f <- struct{}{}
	defer func() { <-f }()
	return work()
}

// credentials bounds a function that reads credentials.
func (f files) credentials(read func() (string, []byte, error)) func() (string, []byte, error) {
	return func() (jwt string, seed []byte, err error) {
		err = f.do(func() error {
			jwt, seed, err = read()
			return err
		})
		return jwt, seed, err
	}
}

// endedEarly returns one error for the servers that ended by themselves: how many there are, and why the first ones
// did; nil without any.
func endedEarly(all []error) error {
	if len(all) <= namedEnds {
		return errors.Join(all...)
	}
	return fmt.Errorf("%d servers ended by themselves; the first %d:\n%w", len(all), namedEnds,
		errors.Join(all[:namedEnds]...))
}
