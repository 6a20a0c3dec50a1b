// Package audit judges a deduplicated stream against its input, exactly: what
// came out twice, what is missing, what does not belong there.
//
// It shares no memory structure with what it audits. IDs and contents are told
// apart by 128 bits of two hashes with seeds of their own; with n records two
// different ones are confused with a chance of about n²/2¹²⁹.
//
// # Truth
//
// Per partition, in input order, stream time M is the largest believed record
// time. Of two copies of an ID the second
//
//   - must be dropped when M moved by at most the window W between their
//     readings and the first went to the output,
//   - must come out when M moved by more than W and one slice, ceil(W/7), and
//     the 6 ms that rounding seven slices may add,
//   - may do either between the two.
//
// Records without an ID must come out.
//
// Whether a time was believed depends on the wall clock at its reading, of which
// an auditor knows only bounds. So M is a pair of bounds too, and only what is
// wrong for every M between them is reported.
//
// # Withheld
//
// A first copy that is absent from the output may be a false positive, of which
// a share of the new records is allowed. It is [Report.Withheld], judged against
// that budget. An event is counted once: later copies of it that are absent as
// well are its duplicates.
package audit
