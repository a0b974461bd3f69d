// Package text reads text files that people write with an editor of any system: inventories, lists of servers, tokens,
// contexts. An editor may put a byte order mark before the first word, or save UTF-16; both look right on its screen.
//
//  1. A mark of UTF-8 is dropped.
//  2. UTF-16 is refused by name, and so is a file with zero bytes, which is no text.
//
// Carriage returns are blanks to all parsers here, so they stay. YAML has rules of its own, and its parser keeps them.
package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// The reasons why a file is refused.
var (
	ErrUTF16  = errors.New("the file is UTF-16; save it as UTF-8")
	ErrBinary = errors.New("the file has zero bytes, so it is no text")
)

var (
	mark  = []byte("\xEF\xBB\xBF")
	marks = [][]byte{[]byte("\xFF\xFE"), []byte("\xFE\xFF")} // of UTF-16
)

// Plain returns text without a byte order mark.
func Plain(data []byte) ([]byte, error) {
	for _, m := range marks {
		if bytes.HasPrefix(data, m) {
			return nil, ErrUTF16
		}
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, ErrBinary
	}
	return bytes.TrimPrefix(data, mark), nil
}

// NewReader returns a reader of text without a byte order mark. It reads the first bytes, and nothing behind them is
// checked.
func NewReader(from io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(from)
	first, err := in.Peek(len(mark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	rest, err := Plain(first)
	if err != nil {
		return nil, err
	}
	_, err = in.Discard(len(first) - len(rest))
	return in, err
}
