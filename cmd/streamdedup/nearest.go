package main

import "fmt"

// nearest is the candidate most like name: the one that needs the fewest
// letters changed, added, left out or swapped with their neighbour. It is "" when
// none needs at most a third of the letters, and two at least.
func nearest(name string, candidates []string) string {
	if name == "" {
		return ""
	}
	best, limit := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := editDistance(name, c); d < limit {
			best, limit = c, d
		}
	}
	return best
}

// didYouMean adds to err the candidate that name was probably meant to be.
func didYouMean(err error, name string, candidates []string) error {
	near := nearest(name, candidates)
	if near == "" {
		return err
	}
	return withHint(err, fmt.Sprintf("did you mean %s?", near))
}

// editDistance is the optimal string alignment distance of a and b.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
