package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// invitation is the token of a server, which several flags can give. A token on a command
// line can be read by everybody on the machine while the process runs, so there are others.
type invitation struct {
	given string // by which flag; empty when there is none
	open  func() (io.ReadCloser, error)
}

// maxInvitation is how long a token may be.
const maxInvitation = 64 << 10

// invitationFlag is one of the flags.
type invitationFlag struct {
	*invitation
	name string
	open func(value string) (func() (io.ReadCloser, error), error)
}

// Set implements flag.Value.
func (f invitationFlag) Set(value string) error {
	if f.given != "" {
		return fmt.Errorf("want one token, and --%s gives one already", f.given)
	}
	open, err := f.open(value)
	if err == nil {
		f.given, f.invitation.open = f.name, open
	}
	return err
}

// String implements flag.Value; a token is never shown.
func (invitationFlag) String() string { return "" }

// Given implements config.Alternative.
func (f invitationFlag) Given() bool { return f.given != "" }

// fromFile opens a file.
func fromFile(path string) (func() (io.ReadCloser, error), error) {
	_, err := config.File(path)
	return func() (io.ReadCloser, error) { return os.Open(path) }, err
}

// fromWordOrInput takes the token itself, or - for the standard input.
func fromWordOrInput(word string) (func() (io.ReadCloser, error), error) {
	if word == "-" {
		in := os.Stdin
		return func() (io.ReadCloser, error) { return in, nil }, nil
	}
	return fromWord(word)
}

// fromWord takes the token itself. An executor that runs may begin again, as another
// program, and what comes over a pipe can be read once.
func fromWord(word string) (func() (io.ReadCloser, error), error) {
	if word == "" || word == "-" {
		return nil, errors.New("want the token; --token-file FILE is for one that nobody shall see")
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(word)), nil }, nil
}

// token reads the token: one line. It ends with ctx although nothing comes.
func (i *invitation) token(ctx context.Context) (string, error) {
	if i.given == "" {
		return "", nil
	}
	type got struct {
		line string
		err  error
	}
	done := make(chan got, 1)
	go func() {
		in, err := i.open()
		if err != nil {
			done <- got{"", err}
			return
		}
		line, err := bufio.NewReader(io.LimitReader(in, maxInvitation)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		done <- got{line, errors.Join(err, in.Close())}
	}()
	select {
	case g := <-done:
		if g.err == nil {
			_, g.err = trust.ParseToken(g.line)
		}
		return g.line, g.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
