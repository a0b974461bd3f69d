package output

import "testing"

func TestTheMeaningsOfTermsAreBrokenAndExamplesAreNot(t *testing.T) {
	t.Parallel()
	have := Reflow(`A paragraph that is too wide for it.

  TERM   what it means in words
         and more
  SHORT  fits
  key: value    # a comment that stays as it is
  {"json": "stays as it is, however wide"}
  1      one two three four five six`, 24)
	want := `A paragraph that is too
wide for it.

  TERM   what it means
         in words and
         more
  SHORT  fits
  key: value    # a comment that stays as it is
  {"json": "stays as it is, however wide"}
  1      one two three
         four five six`
	if have != want {
		t.Errorf("have:\n%s\nwant:\n%s", have, want)
	}
}
