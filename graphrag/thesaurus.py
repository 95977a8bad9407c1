"""Synonym groups in the language of tools: one group a line, British and American forms.

General vocabulary of offices, repositories, databases and the web; a word may be in several
groups. The hashing embedder and full text search use them.
"""

SYNONYM_GROUPS = """
delete remove erase drop discard purge destroy trash rid unlink
clear empty wipe blank erase reset undo unstage
create make add insert new generate initialize build start begin open compose draft append
create another put plan record register
update edit modify change alter patch revise adjust set replace rewrite
set assign put apply give define configure
list show display enumerate browse available all every exist belong own
get fetch retrieve read load obtain extract show view open see give tell display print content look
search find query locate lookup look discover match occurrence occur hunt
send post publish submit deliver notify
write save store persist record put fill enter
copy duplicate clone replicate
move transfer relocate shift send migrate
rename name call retitle
run execute invoke launch start trigger perform
stop cancel abort terminate kill halt end unwatch unfollow unsubscribe
convert transform translate turn export
export save convert dump write
import load upload ingest
upload attach add put
download fetch retrieve save
downloaded local stored saved disk cached offline
batch bulk multiple several many together
replace swap exchange substitute switch throughout everywhere
text content body say wording passage
break fresh new blank
footnote endnote source reference bottom foot
compare diff difference change delta modification edit
history log past previous earlier recent changelog version
assign delegate responsible allocate
comment reply remark note annotation feedback review
reply answer respond response
link connect relate associate attach relationship
sort order arrange
filter slicer narrow select
merge combine join unite concatenate
split separate divide unmerge
duplicate repeated redundant deduplicate
check verify validate test consistent audit coherence inspect
trace depend dependency precedent audit
restrict restriction permission access privilege allow allowed limit may right private secret only
protect lock password encrypt secure
unprotect unlock password decrypt
watch follow monitor subscribe alert track eye watcher inform informed updates interested
alert notification news new reminder
format style font bold italic appearance border fill look
color colour shade shading highlight background fill red green blue yellow black white
summarize summary overview abstract brief digest condense
summarise summary
describe schema structure detail info information metadata property attribute overview
calculate compute evaluate count sum total
increase grow widen expand enlarge width
width height size length layout wide narrow
freeze pane layout row column wider narrower hide fit
workbook spreadsheet excel xlsx
worksheet sheet tab spreadsheet
document word docx doc report file
image picture photo logo png screenshot illustration figure
url web website internet http page site address
wiki confluence page
article encyclopedia wikipedia page entry
paper preprint publication research scientific literature study arxiv
citation cite reference bibliography bibtex
issue ticket bug story defect card request
status state transition done progress workflow close closed reopen resolve resolved finish complete
worklog time hour spent logged effort
user person people member colleague someone account assignee
author who writer by
version release edition revision
attachment attached file
database db sql sqlite
query select statement
schema column field structure table
row record line entry
chart graph plot diagram
macro vba script code
heading header title
section chapter part
outline structure heading toc tree hierarchy
tree hierarchy child children below beneath parent descendant nested subpage sub
folder directory path
branch fork
commit revision changeset save
checkout switch change
stage staging index
unstaged working uncommitted dirty edited changed
staged committed committing index
status state clean dirty uncommitted
timezone zone time clock hour utc
coordinate location latitude longitude geographic geography place position
related similar alike neighbour
bullet bulleted numbered list item
dropdown choice option allowed validation restrict
condition conditional rule when below above
target goal seek reach solve
fit autofit auto adjust
slicer filter pivot
sparkline tiny line trend
mail email message inbox
meeting event calendar appointment schedule
price cost quote
weather forecast temperature climate
chat message conversation channel
remember memory recall memorize
entity node
relation edge relationship
click press tap
navigate visit goto
presentation slide powerpoint
repository repo
pull merge request development
backlog queue
"""

QUESTION_WORDS = {
    "what": ("get", "list"),
    "which": ("list", "get", "search"),
    "who": ("get", "author"),
    "where": ("search", "get"),
    "when": ("get",),
    "how": ("get",),
    "tell": ("get",),
    "give": ("get",),
}
"""Question word -> synonym groups of tools that read."""

ACTIONS = """
add analyse analyze append apply archive ask assign audit build calculate call cancel change check
clear click collect combine compare compile compress compute convert copy count create cut delete
deploy describe detect diff display download draft drop duplicate edit email emit enumerate
evaluate export extract fetch fill filter find fix format generate get give group highlight import
index insert inspect install join launch link list load locate log look make mark measure merge
move notify open order parse paste plan plot post prepare print process produce publish pull push
query read record reformat register remove rename render replace report request reset resize
resolve restart restore retrieve return review revert run save scan schedule score search select
send set share show sort split stage start stop store submit subscribe sum summarise summarize
switch sync tag take tell test track transform translate turn unzip update upload validate verify
view visit watch write zip echo
"""
"""Verbs that begin a new step of an intent."""

ACTION_KINDS = {
    "read": """
get list search read show find fetch view describe download extract compare look retrieve display
check print query trace diff status what which who where when how tell give summary locate
summarize see
""",
    "change": """
create add insert put write attach upload commit update edit rename move set change assign link
copy make start save format merge sort replace convert load import append record log register plan
stage
""",
    "delete": """
delete remove clear drop reset unlink erase wipe empty unprotect unwatch stop
""",
}
"""Kind of action -> the words that indicate it in an intent or a tool's name."""
