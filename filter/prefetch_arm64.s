//go:build !purego

#include "textflag.h"

// func prefetch(lines []line, numbers []uint64)
TEXT ·prefetch(SB), NOSPLIT, $0-48
	MOVD lines_base+0(FP), R0
	MOVD numbers_base+24(FP), R1
	MOVD numbers_len+32(FP), R2
	CBZ  R2, done

next:
	MOVD.P 8(R1), R3
	ADD    R3<<6, R0, R3
	PRFM   (R3), PLDL1KEEP
	SUBS   $1, R2, R2
	BNE    next

done:
	RET
